package samehost

import (
	"io"
	"net"
	"strconv"
	"testing"
)

// sendLoop connects to where, and for each byte that comes it sends n bytes of data ("address n").
func sendLoop(where string, data []byte) error {
	return nil
}

var _ = io.EOF
var _ net.Conn
var _ = strconv.Itoa
var _ testing.TB
