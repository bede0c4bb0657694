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
// What a client can make the process hold is bounded: the header list by maxHeaderList, calls by
// maxStreams for each connection, requests that are on their way by maxReceiving for the whole
// server, control frames that a client provokes by maxControl. Answers wait in the memory of the
// tensors that they are made of; one that is not read keeps those and nothing else.
package http2
