// Package wire defines the messages of the services between tasks (links, guests, the operator's calls). It converts
// errors to gRPC's and back, and reads protobuf messages that carry tensors.
package wire
