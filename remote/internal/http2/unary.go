package http2

import "google.golang.org/grpc/mem"

// stream is a call on a connection: the incoming request and the outgoing answer. It is also a message of a call with many (inbox), of which only
// the part about requests is used.
type stream struct {
	conn   *serverConn
	id     uint32
	method *Method
	call   call
	of     *stream // the call that a message belongs to; nil for calls, and for messages that the handler has taken

	// Owned by the reader, and by the call's goroutine until it detaches.
	encoding   string
	compressed bool
	ended      bool   // the client sends no more
	declined   bool   // answered before the request was complete
	begun      bool   // the handler was called
	aliased    bool   // the message is still in the input buffer
	bodyless   bool   // the answer to a request that is not gRPC's has no contents
	refusal    uint16 // the HTTP status of such an answer; 0 for a call
	prefix     [prefixSize]byte
	charged    bool // some of the message is counted in Server.receiving
	have       int  // bytes of prefix
	size       int
	got        int
	incoming   *stream // of a call with many messages: the one that is being received; nil if there is none
	message    mem.BufferSlice
	one        [1]mem.Buffer // most messages are in one piece
	room       []byte        // unused rest of the last piece
	empty      int           // its size in bytes
	credit     int           // bytes that the client may send; guarded by conn.mu if inbox is set
	consumed   int           // bytes read for which the client has not been given new credit
	due        int64         // bytes still missing according to content-length; -1 if there is none

	// Guarded by Server.receiving, like message and room from when the request is charged until it is complete.
	held    int64 // bytes counted for the request
	arrived int64 // bytes that have arrived
	began   int64 // when it was first charged
	lost    error // why it was evicted

	// Guarded by conn.mu.
	inbox  *inbox // nil for calls with one request
	window int64
	head   [prefixSize]byte
	plain  bool            // the body is not a gRPC message, and ends the stream
	many   bool            // more messages may follow the body
	opened bool            // the headers of an answer of many messages are queued
	headed int             // bytes of head that are queued
	body   mem.BufferSlice // starting at off in the first buffer
	off    int
	left   int  // bytes of head and body that are not queued
	queued bool // in the connection's list of streams that can send
	gone   bool // dropped
	next   *stream
}

// owner returns the call that a message belongs to, or s.
func (s *stream) owner() *stream {
	if s.of != nil {
		return s.of
	}
	return s
}
