// Package wire holds the protobuf messages of a queue's protocol.
package wire
