// Package wire holds the protocols of the actors in package actors, as protobuf messages, and Parcel, a message
// with the tensors that travel with it.
package wire
