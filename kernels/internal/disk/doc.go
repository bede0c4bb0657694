// Package disk runs kernels that read or write files off the executor's goroutine. A file operation may hold a thread indefinitely, and a
// process has a limited number of threads. Therefore at most MaxRunning operations of all steps run at once; others wait in a queue until a
// slot is free or their step ends.
package disk
