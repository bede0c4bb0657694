// Package wire holds the protobuf messages of a device executor's protocol.
package wire
