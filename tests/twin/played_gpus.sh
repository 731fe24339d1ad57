# Sourced by tests of ranks whose GPUs are played on the host and whose NCCL is a fake: processes.sh,
# and in the test's folder the planner, what runs plans on such GPUs, and the libraries.
# Arguments of the test: BIN_FOLDER BINARY FAKE_NCCL.
planner=./planner
rank_variable=RANK
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/processes.sh"
cp "$1/planner" "$1/planner-exec" "$1/libplanner-nccl.so" "$2" .
cp "$3" libnccl.so.2
export TMPDIR=$work  # where the fake's ranks meet
