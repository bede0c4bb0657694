// Package port is the one TCP and UDP port of a task. Three kinds of traffic share it:
//
//   - gRPC: TensorFlow's MasterService, links with the messages of actors, the operator's calls;
//   - gossip streams: distinguished from HTTP/2 and TLS by the first byte of a connection, and with TLS by the
//     ALPN protocol;
//   - gossip packets: UDP on the same number.
//
// It answers grpc.health.v1 for all services of the port. A port also has the actor system of its task.
// Config.Resolve finds the process for messages to actors of other addresses.
package port
