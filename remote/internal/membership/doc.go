// Package membership gossips about which tasks of the declared cluster are up, and which process each of them is.
//
// The gossip (memberlist) is advice, never proof. It reports a crash seconds after a link has noticed it, but it reports it to every task,
// including those without a link. A task's name is its node's name, and its port carries the gossip. The metadata of a node contains the
// boot id of its process, so a restart is noticed although name and address stay the same.
//
// Only the declared cluster is admitted: nodes of another spec, undeclared names, and names at other addresses are rejected. Since gossip
// drops such nodes silently, every process is greeted over its link service before it is joined, so both sides can report what is wrong.
package membership
