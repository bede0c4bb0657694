// Package wire holds the messages of the services between tasks (links, guests, the operator's calls), the
// conversion of errors to gRPC's and back, and a reader of protobuf messages that carry tensors.
package wire
