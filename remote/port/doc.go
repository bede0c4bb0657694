// Package port is the one TCP and UDP port at which a task is reached. Four kinds of traffic
// share it:
//
//   - actor messages: protoactor-go's remoting, which makes the listener and the grpc.Server;
//   - further gRPC services (TensorFlow's MasterService, links): the remoting registers only
//     itself and has no hook, so they are served by the server's handler for unknown services;
//   - gossip streams: told apart from HTTP and TLS by the first byte of a connection, while
//     gRPC believes to shake hands, and with TLS by the ALPN protocol;
//   - gossip packets: UDP on the same number.
//
// It answers grpc.health.v1 for all services of the port.
//
// The package also keeps the library's rough edges in: it reports a taken port where the
// library panics, turns panics of handlers into errors where the library ends the process,
// gives gRPC its logger back, and stops in bounded time.
package port
