// Package wire holds the protobuf messages that Troupe's actors exchange between processes.
package wire
