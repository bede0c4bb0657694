// Package membership gossips about which tasks of the declared cluster are there, and which
// process each of them is.
//
// The gossip (memberlist) is advice and never proof: it tells of a crash seconds after a link
// has noticed it, but it tells everybody, also those who have no link. A task's name is its
// node's name, its port carries the gossip, and the metadata of a node holds the boot id of its
// process, so that a restart is seen although name and address stay the same.
//
// The declared cluster is a fence: nodes of another spec, names that it does not declare and
// names at other addresses are refused. Since gossip drops such nodes silently, every process
// is greeted over its link service before it is joined, and then both sides can tell people
// what is wrong.
package membership
