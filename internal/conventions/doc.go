// Package conventions has the tests of what all sources keep to and no compiler checks: which folder imports which, what other modules can import,
// that each goroutine is contained, each recursion bounded, each timer and each deadline of a test listed with its reason, that kernels open no
// files, that documents tell what is there, in plain words. The tests read files, and import next to nothing of the module.
package conventions
