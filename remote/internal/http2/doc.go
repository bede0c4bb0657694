// Package http2 implements gRPC over HTTP/2 for a task's port. It has a server for unary calls, server
// streams and bidirectional streams of many clients, and for streams between tasks that have a dedicated connection, and a client. It
// is built for low latency and large messages. A request is read, decoded and run on the goroutine that reads its
// connection, and the same goroutine writes the answer with one system call. Another goroutine takes over
// reading only if a call blocks (Detach). Contents of tensors are transferred from and to the socket without an
// intermediate copy.
//
// The package implements only what gRPC needs of HTTP/2 (RFC 9113): there is no server push and no priority, and
// its own client streams only on a dedicated connection. Header compression and the names of
// frames, settings and errors are those of golang.org/x/net. An error that RFC 9113 allows to be a stream error
// ends the call, not the connection; rfc9113_test.go is a table of them. Requests that are not gRPC,
// including HTTP/1, are answered with a line of text.
//
// The resources that a client can use are bounded:
//
//   - headers by maxHeaderList, calls and handlers by maxStreams for each connection. A header list that is
//     still being received is bounded by maxHeaderBlock and counts as a request that is being received.
//   - requests that are being received, and what they decompress to, by Config.MaxReceiving for the whole server.
//     They are counted as bytes arrive, not as they are announced, and shared fairly among clients (ledger).
//   - messages that the handler of a bidirectional stream has not read, by the window of the stream. They count as requests that are being
//     received, and are evicted like those, together with their call.
//   - answers wait in the memory of the tensors that they are made of. While a client has more than
//     maxUnsent/16 bytes of unread answers, its further calls wait before they run. Answers beyond maxUnsent
//     are replaced by RESOURCE_EXHAUSTED. Config.MaxUnsent bounds the whole server.
//   - frames without useful data by overheadBurst and overheadRate.
//   - processors: connections that keep them busy take turns (turns).
//   - connections by Config.MaxConnections; idle ones are closed to make room.
//   - if a client provokes answers to control frames, or refusals, and does not read them, the server stops
//     reading from it.
//
// A write to a client that does not read blocks only its own goroutine: other connections have their own
// goroutines, and Stop closes the connection when its deadline expires. A connection ends in three cases: the
// kernel has accepted nothing for a minute (stall); nothing arrived for pingIdle, and a ping was not answered
// within pingAnswer although the reader was listening; no preface arrived within prefaceTimeout. A dedicated
// connection is not pinged: its owner controls reads, and has its own heartbeats.
//
// A client that waits for answers pings a silent server, after the time that the server's settingPings allows, or
// after strangerIdle, and ends the connection if the ping is not answered.
package http2
