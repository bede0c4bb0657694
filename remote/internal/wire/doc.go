// Package wire holds the messages of the links between tasks, the way of errors through gRPC and
// back, and a reader of protobuf messages that carry tensors.
package wire
