// `planner`: plans, compares and explains. It links no numeric library and starts in milliseconds;
// what runs a plan is planner-exec beside it.

#include "cli/verbs.hpp"

int main(int count, char** arguments) { return cli::run_planner(count, arguments, {}); }
