// Package partition cuts a placed graph into one graph for each device.
//
// # Edges
//
// An edge whose ends lie on different devices becomes a _Send on the source's device and a
// _Recv on the destination's, which meet in the step's rendezvous under the name of the edge and
// the iteration they run in. What several nodes of a device read is sent to it once. A control
// edge rides on a tensor that goes the same way if there is one; else all the control edges that
// a node has from one device are sent together as one empty tensor. A _Recv may be the source of
// a control edge as any node.
//
// Reading a reference is the exception to sharing: each reader on another device gets the
// variable's value in a transfer of its own, whose _Send runs after all other inputs of the reader
// have come, as the reader itself would read it on one device. (TensorFlow, whose consumers
// pull, delays the _Recv instead; here the _Send decides what is read.)
//
// Float values may cross from task to task as bfloat16 (graph.WireType, Options.Narrow): a Cast before the
// _Send makes them so and one after the _Recv makes them float again.
//
// # Memory
//
// A GPU has memory of its own, and its kernels say which inputs and outputs are the host's instead
// (Options.MemoryTypes). A _Send takes what lies in the device's memory and a _Recv brings it there; _HostSend
// and _HostRecv are for host memory. Each side is what its own end of the edge asks for. An edge whose
// ends lie on one device in different memories is cut too: the _Recv waits for its _Send by a control edge, so that
// it runs in the same iterations and needs no other start. References are never copied: reading one in
// the other memory is a transfer of its own, as from another device. What stands for control edges and loop
// iterations is of a type that is the host's on GPUs.
//
// # Loops
//
// A loop over several devices has a leader, the device of its LoopCond. Every device that takes
// part must know how many iterations there are, and a _Recv inside of the loop must run once in
// each. So a device that receives inside of a loop gets a small loop of its own with an empty
// tensor as its only variable,
//
//	Const → Enter → Merge → Switch(LoopCond) → NextIteration → Merge
//
// whose Switch is told the leader's LoopCond in every iteration, and whose Merge starts the
// device's _Recvs of that iteration by control edges. Where loops are nested, the inner loop's
// Enter is fed by the outer loop's Merge in place of the Const. A node that runs in the first
// iteration only (it hangs on an Enter without a Merge) is received by a _Recv that hangs on the
// small loop's Enter; one that runs in all but the first, by one that hangs on its NextIteration.
//
// A dead branch needs nothing special as long as the executor runs _Send and _Recv when their
// inputs are dead: the dead bit travels, a dead LoopCond ends the small loops.
//
// Enters and NextIterations are there on every device that reads them, so that a value crosses
// before it enters the loop: an invariant (a constant Enter) once, not in each iteration. Where the other device
// has no kernel for such a node (Options.Supports), it stays.
//
// The construction is that of TensorFlow's graph_partition.cc; the three ways of starting a
// _Recv, the invariants and the shared control edges are Troupe's.
package partition
