"""Checks `zerohop doctor` as users call it: what it finds, its exit codes. Usage: check_doctor.py <zerohop> <cc>"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cli import CC, ZEROHOP, Case, zerohop


class Doctor(Case):
    def test_doctor(self):
        r = zerohop("doctor", "--json")
        report = json.loads(r.stdout)
        self.assertEqual(r.returncode, ["ok", "warn", "bad"].index(report["worst"]))
        names = [c["name"] for c in report["checks"]]
        self.assertEqual(len(names), len(set(names)))
        wanted = "library modules mpi preloads variables calibration binding cma kernel_module yama memfd dev_shm"
        wanted += " affinity oversubscription huge_pages shared_heap peer_files populate pagemap"
        self.assertLessEqual(set(wanted.split()), set(names))
        for check in report["checks"]:
            if check["state"] != "ok":
                self.assertTrue(check["cost"] and check["cure"], check)
        text = zerohop("doctor")
        self.assertEqual(text.returncode, r.returncode)
        self.assertIn("memfd", text.stdout)

    def doctor(self, *args, command=ZEROHOP, **env):
        """Checks by name, and the exit code."""
        r = zerohop("doctor", "--json", *args, command=command, **env)
        report = json.loads(r.stdout)
        self.assertEqual(r.returncode, ["ok", "warn", "bad"].index(report["worst"]))
        for check in report["checks"]:
            self.assertEqual(
                check["state"] != "ok", check["state"] != "ok" and all((check["cost"], check["cure"])), check
            )
        return {c["name"]: c for c in report["checks"]}

    def made(self, name, text, *flags):
        """A compiled program or library."""
        path = Path(self.folder.name) / name
        path.parent.mkdir(exist_ok=True)
        (Path(self.folder.name) / "made.c").write_text(text)
        subprocess.run([CC, str(Path(self.folder.name) / "made.c"), "-o", str(path), *flags], check=True)
        return str(path)

    def test_doctor_looks_for_library_and_modules(self):
        modules = ("libzerohop-ompi.so", "libzerohop-mpich.so", "libzerohop-abi.so")
        path = f"{self.an_mpi()[0]}:{os.environ['PATH']}"  # so that this machine's own do not count
        for files, library, state in (
            ((), "bad", "bad"),
            (("libzerohop.so",), "ok", "bad"),
            (("libzerohop.so", *modules), "ok", "ok"),
            (("libzerohop.so", modules[0]), "ok", "ok"),
        ):
            checks = self.doctor(command=self.installed(*files), PATH=path)
            self.assertEqual((checks["library"]["state"], checks["modules"]["state"]), (library, state), files)

    def an_mpi(self, version="5.0.3", soname="libmpi.so.40"):
        """A made-up Open MPI in a folder with a blank in its name: launcher, library and a program linked with it."""
        tree = Path(tempfile.mkdtemp(prefix="an mpi ", dir=self.folder.name))
        for name in ("bin", "lib"):
            (tree / name).mkdir()
        (tree / "bin" / "mpiexec").write_text(f"#!/bin/sh\necho 'mpiexec (Open MPI) {version}'\n")
        (tree / "bin" / "mpiexec").chmod(0o755)
        text = f"""#include <string.h>
            int ompi_mpi_comm_world;
            int MPI_Init(void) {{ return 0; }} int PMPI_Init(void) {{ return 0; }}
            int MPI_Get_library_version(char* s, int* n) {{
                strcpy(s, "Open MPI v{version}, made up"); return *n = 0; }}
            """
        library = self.made(f"{tree.name}/lib/{soname}", text, "-shared", "-fPIC", f"-Wl,-soname,{soname}")
        text = "int MPI_Init(void); int main(void) { return MPI_Init(); }"
        program = self.made(f"{tree.name}/the app", text, library, f"-Wl,-rpath,{tree / 'lib'}")
        return str(tree / "bin"), library, program

    def test_doctor_finds_the_mpi_library(self):
        path, library, program = self.an_mpi()
        env = {"PATH": f"{path}:{os.environ['PATH']}"}
        found = self.doctor(**env)["mpi"]
        self.assertEqual(found["state"], "ok")
        self.assertIn(
            f"{path}/mpiexec (Open MPI 5.0.3); libmpi.so.40: Open MPI 5.0.3, served ({library})", found["finding"]
        )
        command = self.installed("libzerohop.so", "libzerohop-mpich.so")
        self.assertEqual(self.doctor(command=command, **env)["modules"]["state"], "warn")
        self.assertEqual(self.doctor(program, command=command, **env)["program"]["state"], "bad")
        command = self.installed("libzerohop.so", "libzerohop-ompi.so")
        checks = self.doctor(program, command=command, **env)
        self.assertEqual(checks["program"]["state"], "ok")
        self.assertIn("links with libmpi.so.40: Open MPI 5.0.3, served", checks["program"]["finding"])
        shim = self.made("shim/libzerohop.so", "int PMPI_Init(void) { return 0; }", "-shared", "-fPIC")
        env |= {"LD_PRELOAD": "libzerohop.so", "LD_LIBRARY_PATH": str(Path(shim).parent)}
        self.assertIn("links with libmpi.so.40", self.doctor(program, command=command, **env)["program"]["finding"])
        _, library, program = self.an_mpi(soname="libmpi_abi.so.1")  # the name that fewest machines have
        Path(library).unlink()
        found = self.doctor(program, command=command)["program"]
        self.assertEqual(found["state"], "bad")
        self.assertIn("links with libmpi_abi.so.1, which the loader does not find", found["finding"])

    def test_doctor_knows_what_is_not_served(self):
        path, _, program = self.an_mpi("2.1.1", "libmpi.so.20")
        checks = self.doctor(PATH=f"{path}:{os.environ['PATH']}")
        self.assertEqual(checks["mpi"]["state"], "bad")
        self.assertIn("not served", self.doctor(program)["program"]["finding"])

    def test_doctor_knows_profilers_that_a_program_is_linked_with(self):
        _, library, _ = self.an_mpi()
        folder = Path(library).parent
        flags = (f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed")
        passes_on = "int PMPI_Init(void); int MPI_Init(void) { return PMPI_Init(); }"
        looks_up = "void* dlsym(void*, const char*); void* MPI_Init(void) { return dlsym(0, 0); }"
        for name, text, state in (("mpiP", passes_on, "ok"), ("looks", looks_up, "bad")):
            profiler = self.made(f"{folder.parent.name}/lib/lib{name}.so", text, "-shared", "-fPIC",
                                 f"-Wl,-soname,lib{name}.so")  # fmt: skip
            text = "int MPI_Init(void); int main(void) { return MPI_Init(); }"
            program = self.made(f"with {name}", text, *flags, profiler, library)
            check = self.doctor(program, command=self.installed("libzerohop.so", "libzerohop-ompi.so"))["program"]
            self.assertEqual(check["state"], state, check)
            self.assertIn(f"lib{name}.so", check["finding"])
            behind = self.made(f"behind {name}", text, *flags, library, profiler)
            self.assertNotIn(f"lib{name}.so", self.doctor(behind)["program"]["finding"])

    def test_doctor_looks_into_programs(self):
        folder = Path(self.folder.name)
        script = folder / "a script"
        script.write_text(f"#!{sys.executable}\n")
        script.chmod(0o755)
        (folder / "data").write_text("no program\n")
        inside = self.made("inside", "int PMPI_Init(void) { return 0; } int main(void) { return PMPI_Init(); }")
        plain = self.made("plain", "int main(void) { return 0; }")
        for program, state, said in (
            ("no-such-program", "bad", "program not found"),
            (str(folder / "data"), "bad", "Permission denied"),
            (inside, "bad", "statically"),
            (plain, "warn", "links with no MPI library"),
            (str(script), "ok", f"a script, run by {sys.executable}"),
            ("sh", "ok", "/sh: links with no MPI library"),
        ):
            check = self.doctor(program)["program"]
            self.assertEqual(check["state"], state, check)
            self.assertIn(said, check["finding"])
        if self.has_static:
            self.assertIn("statically linked", self.doctor(self.static)["program"]["finding"])

    def test_doctor_tells_of_variables_preloads_and_sockets(self):
        checks = self.doctor(ZEROHOP_HEEP="1", ZEROHOP_WAIT="never", LD_PRELOAD=self.lib)
        self.assertEqual(checks["variables"]["state"], "warn")
        self.assertIn("did you mean ZEROHOP_HEAP?", checks["variables"]["finding"])
        self.assertIn("auto, spin, passive", checks["variables"]["finding"])
        self.assertEqual((checks["preloads"]["state"], checks["preloads"]["finding"]), ("ok", self.lib))
        self.assertEqual(self.doctor(LD_PRELOAD="/no/such.so")["preloads"]["state"], "warn")
        for name, state in (
            ("/no/such/folder/run.json", "warn"),
            (self.folder.name, "warn"),
            (f"{self.folder.name}/run.json", "ok"),
            ("/no/such/%j/run.json", "ok"),
        ):
            self.assertEqual(self.doctor(ZEROHOP_STATS=name)["variables"]["state"], state, name)
        two = {"ZEROHOP_CONFIG": "topology=synthetic:package:2 core:1 pu:1"}
        self.assertEqual(self.doctor(**two)["binding"]["state"], "ok")
        if {0, 1} <= os.sched_getaffinity(0):
            loose = self.doctor(MPI_LOCALNRANKS="4", **two)["binding"]
            self.assertEqual(loose["state"], "warn")
            self.assertIn("away from its memory", loose["cost"])

    def test_doctor_reads_a_run(self):
        stats = Path(self.folder.name) / "stats.json"
        way = {"cma": [], "mapped": [{"below_bytes": 2 << 20, "messages": 3, "bytes": 3 << 20}],
               "cells": [{"below_bytes": 2 << 20, "messages": 1, "bytes": 1 << 20}]}  # fmt: skip
        stats.write_text(json.dumps({"schema": 1, "ranks": [{"sent": {"by_path": way}}]}))
        r = zerohop("doctor", "--stats", str(stats))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("served            zerohop carried 4 messages inside nodes\n", r.stdout)
        self.assertIn("\n\nThe ways of bytes (inline, cells, team ...) are in docs/glossary.md.\n", r.stdout)
        self.assertIn("75.0 % of the 4.0 MiB", r.stdout)
        self.assertNotIn("glossary", zerohop("doctor").stdout)
        way["\x1b[2J\x9b"] = way.pop("cma") + way["cells"]
        stats.write_text(json.dumps({"schema": 1, "ranks": [{"sent": {"by_path": way}}]}, ensure_ascii=False))
        self.assertIn(r"\u001b[2J\u009b", zerohop("doctor", "--stats", str(stats)).stdout)
        other = "has schema 2; this command reads 1"
        for text, said in (("{}", "is not a file"), ("[]", "is not a file"), ('{"schema": 2, "ranks": []}', other)):
            stats.write_text(text)
            self.refused([(["--stats", str(stats)], said)], "doctor")
        self.refused([(["--stats", ""], "names nothing")], "doctor")
        for path, said in (("/no/such/file", "No such file"), (self.folder.name, "Is a directory")):
            r = zerohop("doctor", "--stats", path)
            self.assertEqual(r.returncode, 2)
            self.assertIn(said, r.stderr)

    def test_doctor_sees_limits(self):
        shell = ["sh", "-c", f"ulimit -f 100; exec {shlex.quote(ZEROHOP)} doctor --json"]
        r = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(r.returncode, 2)
        limits = next(c for c in json.loads(r.stdout)["checks"] if c["name"] == "limits")
        self.assertEqual(limits["state"], "bad")
        self.assertIn("ulimit -f", limits["cure"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
