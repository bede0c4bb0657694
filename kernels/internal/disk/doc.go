// Package disk runs kernels that read or write files off the goroutine of the executor. A file operation may hold a
// thread for as long as the system likes, and a process has only so many threads: MaxRunning operations of all
// steps run at a time, and others wait in a queue until then, or until their step ends.
package disk
