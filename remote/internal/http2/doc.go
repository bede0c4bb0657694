// Package http2 is gRPC over HTTP/2 for what a task's port carries: unary calls and server streams of many
// clients, and streams between tasks that have a connection of their own. It has the server and a client. It
// exists for latency and for large messages. A request is read, decoded and run on the goroutine that reads its
// connection, and the same goroutine writes the answer with one system call. Another goroutine takes over the
// reading only if a call waits (Detach). Contents of tensors go from and to the socket without a copy in
// between.
//
// It implements what gRPC needs of HTTP/2 (RFC 9113) and no more: there is no server push and no priority, and
// clients stream only on a connection that they have for themselves. Header compression and the names of
// frames, settings and errors are those of golang.org/x/net. An error that RFC 9113 allows to be a stream error
// ends that call and not the connection; rfc9113_test.go is a table of them. Requests that are not gRPC,
// including HTTP/1, get a line of text.
//
// What a client can make the process hold is bounded:
//
//   - headers by maxHeaderList, calls and handlers by maxStreams for each connection; a list that is
//     still being received by maxHeaderBlock, and it counts as a request that is being received;
//   - requests that are being received, and what they decompress to, by Config.MaxReceiving for the whole server,
//     counted as bytes arrive and not as they are announced, and shared out among clients (ledger);
//   - answers wait in the memory of the tensors that they are made of. While a client has not read
//     maxUnsent/16 bytes of answers, its further calls wait before they run, and answers beyond maxUnsent
//     are replaced by RESOURCE_EXHAUSTED; Config.MaxUnsent is for the whole server;
//   - frames that bring nothing by calmBurst and calmRate;
//   - processors: connections that keep them busy take turns (turns);
//   - connections by Config.MaxConnections, for which idle ones make room;
//   - a client that provokes answers to control frames, or refusals, and does not read them is not
//     read from either.
//
// A write to a client that does not read blocks only its own goroutine: other connections have goroutines of
// their own, and a stop closes the connection when its time is over. A connection ends when the kernel has
// accepted nothing for a minute (stall), when nothing came for pingIdle and a ping is not answered within
// pingAnswer, and when no preface came within prefaceTimeout. A stream that has its connection for itself is
// not pinged: its reader reads when it wants to, and has heartbeats of its own.
package http2
