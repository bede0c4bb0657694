// Package link keeps a task informed about the tasks that its plans need, and carries large
// tensors to them.
//
// A link is opened when somebody asks for the peer (Links.Ensure) and closed when nobody has
// needed it for a minute. It begins with a handshake that refuses a process of another cluster
// spec, and that tells the peer's boot id and devices. Then both ends send heartbeats. A peer
// whose connection breaks is lost at once; one that is frozen, when nothing was heard from it
// for a few seconds (gRPC's own keepalive takes 13). A Peer stands for one process: it is up,
// and then it is down for ever. A process that came back is another Peer.
//
// Large tensors flow over a connection of their own, so that the heartbeats and the actors'
// messages do not stand behind them.
package link
