// Package freed makes uses of memory after its release visible. Where buffers are reused, a slice that outlives its buffer goes unnoticed until
// something else needs the memory just then. In builds with the race detector, buffers are therefore overwritten when they are released, and the
// detector sees that as a write. In other builds the package does nothing.
package freed
