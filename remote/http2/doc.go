// Package http2 is gRPC over HTTP/2 for what a task's port carries: unary calls of many clients,
// and streams between tasks that have a connection of their own. It exists for latency and for
// large messages. A request is read, decoded and run on the goroutine that reads its connection,
// and the answer leaves with one system call from the same goroutine; nothing is handed over
// unless a call waits (Detach). Contents of tensors go from and to the socket without a copy in
// between.
//
// It speaks what gRPC needs of HTTP/2 (RFC 9113) and no more: there is no server push, no priority,
// and of streaming calls only those of Stream. Header compression is that of golang.org/x/net.
//
// What a client can make the process hold is bounded:
//
//   - headers by maxHeaderList, calls and handlers by maxStreams for each connection;
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
// A stream is not pinged: who reads one reads when it wants to, and has heartbeats of its own.
package http2
