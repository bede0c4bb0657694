// Package e2e holds the end-to-end tests: TensorFlow's own, unmodified Python client against real troupe
// processes, clusters in the test's process, and faults such as tasks that die.
//
//   - programs/ are whole Python programs, as users write them; programs_test.go runs them.
//   - cases/ are short Python functions, one statement about a session each; cases_test.go runs
//     every function whose name begins with test_ as a subtest.
//   - faults/ are functions like these during which tasks die, freeze and come back; faults_test.go
//     runs them.
//   - gpu/ are functions for servers with GPUs; gpu_test.go runs them on a driver for tests. gpu/report tests and
//     measures a machine's card.
//   - gradients/ compares the gradients of package graph/grad with central differences and TensorFlow's.
//   - metamorphic/ makes random programs, runs them in many ways and compares them with an interpreter;
//     here a sample of them is sent to TensorFlow's own servers.
//   - differential/ compares random programs, and single ops, on Troupe and on TensorFlow's own servers;
//     differential_test.go runs some of the programs, and `python differential/run.py --help` shows how to run more.
//     run_eager.py does the same with programs of TensorFlow 2, which differential_eager_test.go runs.
//   - clients/ and datasets/ are Python programs with arguments or clusters of their own.
//   - runs_test.go runs all of these, the examples and the programs of the documents more than once on one cluster. testdata/runs.txt has those
//     that do not run alike, and why.
//   - The other tests are in Go: faults, membership, hostile bytes, retries, and the limits and rates
//     that docs/wire.md states.
//
// Long tests that do not measure, and have a cluster of their own, run in parallel (t.Parallel): their clients wait most of the time.
//
// On first use, the tests make a Python virtual environment with the packages of requirements.txt in the user's
// cache directory. TROUPE_PYTHON names an interpreter to use instead. Without Python or a package index they
// are skipped; with CI=true they fail. TROUPE_E2E_BINARY names a binary to test instead of the one built from this tree, and
// TROUPE_E2E_GROWTH names a file for the tables of docs/growth.md. TROUPE_TESTS sets the number of repetitions and the size of tensors: see
// package internal/extent.
package e2e
