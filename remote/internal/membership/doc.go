// Package membership gossips about which tasks of the declared cluster are there, and which process each of
// them is.
//
// The gossip (memberlist) is advice and never proof. It tells of a crash seconds after a link has noticed it,
// but it tells every task, including those without a link. A task's name is its node's name, its port carries
// the gossip, and the metadata of a node holds the boot id of its process, so that a restart is noticed
// although name and address stay the same.
//
// Only the declared cluster is admitted: nodes of another spec, undeclared names and names at other addresses
// are refused. Since gossip drops such nodes silently, every process is greeted over its link service before it
// is joined, so that both sides can report what is wrong.
package membership
