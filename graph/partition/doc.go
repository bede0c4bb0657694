// Package partition divides a placed graph into one graph for each device.
//
// # Edges
//
// An edge between two devices becomes a _Send on the source's device and a _Recv on the destination's. They
// meet in the step's rendezvous under the name of the edge and the iteration that they run in. A value that
// several nodes of a device read is sent to that device once. A control edge shares a tensor that goes the same
// way, if there is one. Otherwise, all the control edges that a node has from one device are sent together as
// one empty tensor. A _Recv may be the source of a control edge like any node.
//
// Reads of references are not shared. Each reader on another device gets the variable's value in a transfer of
// its own, whose _Send runs after all other inputs of the reader have come, as the reader itself would read it
// on one device. (TensorFlow, whose consumers pull, delays the _Recv instead; here the _Send decides what is
// read.)
//
// Float values may cross from task to task as bfloat16 (graph.WireType, Options.Narrow): a Cast before the
// _Send narrows them and one after the _Recv widens them.
//
// # Memory
//
// A GPU has memory of its own, and its kernels declare which inputs and outputs are in the host's memory
// instead (Options.MemoryTypes). A _Send takes a value from the device's memory and a _Recv puts it there;
// _HostSend and _HostRecv are for host memory. Each end of the edge decides its own side. An edge whose ends
// lie on one device in different memories is divided too. The _Recv waits for its _Send by a control edge, so
// that it runs in the same iterations and needs no other start. References are never copied: reading one in the
// other memory is a transfer of its own, as from another device. Values that stand for control edges and loop
// iterations are of a type that is in host memory on GPUs.
//
// # Loops
//
// A loop over several devices has a leader, the device of its LoopCond. Every participating device must know
// how many iterations there are, and a _Recv inside the loop must run once in each. So a device that receives
// inside a loop gets a small loop of its own with an empty tensor as its only variable,
//
//	Const → Enter → Merge → Switch(LoopCond) → NextIteration → Merge
//
// Its Switch receives the leader's LoopCond in every iteration, and its Merge starts the device's _Recvs of
// that iteration by control edges. In nested loops, the outer loop's Merge feeds the inner loop's Enter in
// place of the Const. A node that runs only in the first iteration (it depends on an Enter without a Merge) is
// received by a _Recv that depends on the small loop's Enter. A node that runs in all but the first is received
// by one that depends on its NextIteration. A dead branch needs nothing special as long as the executor runs
// _Send and _Recv when their inputs are dead: the dead bit travels, and a dead LoopCond ends the small loops.
//
// Every device that reads an Enter or a NextIteration has one, so that a value crosses before it enters the
// loop. An invariant (a constant Enter) crosses once, not in each iteration. If the other device has no kernel
// for such a node (Options.Supports), the node stays where it is.
//
// The construction is that of TensorFlow's graph_partition.cc. The three ways of starting a _Recv, the
// invariants and the shared control edges are Troupe's.
package partition
