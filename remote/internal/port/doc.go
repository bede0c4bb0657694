// Package port implements a task's single TCP and UDP port. Three kinds of traffic share it:
//
//   - gRPC: TensorFlow's MasterService, links with the messages of actors, the operator's calls, calls of programs'
//     actors;
//   - gossip streams: distinguished from HTTP/2 and TLS by the first byte of a connection, and with TLS by the
//     ALPN protocol;
//   - gossip packets: UDP on the same port number.
//
// The port answers grpc.health.v1 for all its services. It also owns the actor system of its task.
// Config.Resolve returns the actor.Process for messages to actors of other addresses.
package port
