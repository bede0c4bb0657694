// Package port is the one TCP and UDP port at which a task is reached. Three kinds of traffic
// share it:
//
//   - gRPC: TensorFlow's MasterService, links and the remoting of actors;
//   - gossip streams: told apart from HTTP/2 and TLS by the first byte of a connection, and with TLS by the
//     ALPN protocol;
//   - gossip packets: UDP on the same number.
//
// It answers grpc.health.v1 for all services of the port. A port also has the actor system of its task. Messages to actors of other addresses go where
// Config.Resolve says.
package port
