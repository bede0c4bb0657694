// Package wire holds the protobuf messages of a container's protocol.
package wire
