// Package wire holds the messages of the links between tasks, and the way of errors through
// gRPC and back.
package wire
