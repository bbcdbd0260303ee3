"""Several machines made of namespaces of this one, and how each host's own launcher starts a job on them."""
