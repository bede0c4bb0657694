package http2

import "google.golang.org/grpc/mem"

// stream is a call with one request on a connection: the request on the way in, the answer on the way out.
type stream struct {
	conn   *serverConn
	id     uint32
	method *Method
	call   call

	// Of the reader, and of the call's goroutine until it detaches.
	encoding   string
	compressed bool
	ended      bool   // the client sends no more
	declined   bool   // answered before the request was there
	begun      bool   // the handler was called
	aliased    bool   // the message lies where it was read
	bodyless   bool   // the answer to a request that is not gRPC's has no contents
	refusal    uint16 // the HTTP status of such an answer; 0 for a call
	prefix     [prefixSize]byte
	have       int // of prefix
	size       int
	got        int
	charged    bool // some of it counts in Server.receiving
	message    mem.BufferSlice
	one        [1]mem.Buffer // most messages are in one piece
	room       []byte        // of the last piece that is to be filled
	empty      int           // bytes of it
	credit     int           // bytes that the client may send
	consumed   int           // bytes that it was not given credit for again
	due        int64         // bytes of the request by its content-length that did not come yet; -1 if it has none

	// Guarded by Server.receiving, with message and room once the request is charged and until it is there.
	held    int64 // what the request counts for
	arrived int64 // how much of it came
	began   int64 // when it was charged first
	lost    error // why it lost its place

	// Guarded by conn.mu.
	window int64
	head   [prefixSize]byte
	plain  bool            // the body is not a gRPC message, and ends the stream
	many   bool            // more messages may follow the body
	opened bool            // the headers of an answer of many messages are queued
	headed int             // what of head is queued
	body   mem.BufferSlice // from off in the first buffer on
	off    int
	left   int // bytes of head and body that are not queued
	queued bool
	gone   bool
	next   *stream
}
