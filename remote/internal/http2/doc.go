// Package http2 is gRPC over HTTP/2 for what a task's port carries: unary calls and server streams of
// many clients, and streams between tasks that have a connection of their own. It exists for latency and for
// large messages. A request is read, decoded and run on the goroutine that reads its connection,
// and the answer leaves with one system call from the same goroutine; nothing is handed over
// unless a call waits (Detach). Contents of tensors go from and to the socket without a copy in
// between.
//
// It speaks what gRPC needs of HTTP/2 (RFC 9113) and no more: there is no server push, no priority,
// and clients stream only where they have the connection for themselves. Header compression and the
// names of frames, settings and errors are those of golang.org/x/net. An error that RFC 9113 lets be
// of a stream ends that call and not the connection; rfc9113_test.go is a table of them. Requests that
// are not gRPC's, those of HTTP/1 too, get a line of text.
//
// What a client can make the process hold is bounded:
//
//   - headers by maxHeaderList, calls and handlers by maxStreams for each connection; a list that is
//     still coming by maxHeaderBlock, and it counts as a request on its way;
//   - requests that are on their way, and what they expand to, by maxReceiving for the whole server,
//     counted as bytes come and not as they are claimed;
//   - answers wait in the memory of the tensors that they are made of. While a client has not read
//     maxOwed/16 bytes of answers its further calls wait before they run, and answers beyond maxOwed
//     are replaced by RESOURCE_EXHAUSTED;
//   - a client that provokes answers to control frames, or refusals, and does not read them is not
//     read from either.
//
// A write to a client that does not read blocks the goroutine that has it, and nothing else: other
// connections have goroutines of their own, and a stop closes the connection when its time is over.
// The connection ends when the kernel has taken nothing for a minute (stall), when nothing came for
// pingIdle and a ping is not answered within pingAnswer, and when no preface came in prefaceTimeout.
// A stream that has its connection for itself is not pinged: who reads one reads when it wants to,
// and has heartbeats of its own.
package http2
