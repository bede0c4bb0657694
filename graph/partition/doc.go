// Package partition splits a placed graph into one graph per device.
//
// # Edges
//
// An edge between two devices becomes a _Send on the source's device and a _Recv on the destination's. They meet in the step's rendezvous
// under the name of the edge and the iteration that they run in. A value that several nodes of a device read is sent to that device once.
// A control edge uses a tensor that its source already sends to that device, if there is one. Otherwise, all the control edges that a node
// has from one device are sent together as one empty tensor. A _Recv may be the source of a control edge like any node: what waits for it is
// dead if the value is. TensorFlow's executor needs an Identity for that, which package component adds.
//
// Reads of references are not shared. Each reader on another device gets the variable's value in its own transfer, whose _Send runs after
// all other inputs of the reader have arrived, just when the reader itself would read it on one device. (In TensorFlow, consumers pull, so
// it delays the _Recv instead; here the _Send determines what is read.)
//
// Float values may travel between tasks as bfloat16 (graph.WireType, Options.Narrow): a Cast before the _Send narrows them and one after
// the _Recv widens them.
//
// # Memory
//
// A GPU has its own memory, and its kernels declare which inputs and outputs are in host memory instead (Options.MemoryTypes). A _Send
// takes a value from device memory and a _Recv puts it there; _HostSend and _HostRecv are for host memory. Each end of the edge decides
// its own side. An edge whose ends are on one device but in different memories is split, too. Its _Recv waits for its _Send by a control
// edge, so it runs in the same iterations and needs no other start. References are never copied: reading one in the other memory is a
// separate transfer, as from another device. Values that stand for control edges and loop iterations have a type that is in host memory on
// GPUs.
//
// # Loops
//
// A loop over several devices has a leader, the device of its LoopCond. Every participating device must know how many iterations there
// are, and a _Recv inside the loop must run once in each. A device that receives inside a loop therefore gets a small loop of its own,
// whose only variable is an empty tensor:
//
//	Const → Enter → Merge → Switch(LoopCond) → NextIteration → Merge
//
// Its Switch receives the leader's LoopCond in every iteration, and its Merge starts the device's _Recvs of that iteration through control
// edges. In nested loops, the outer loop's Merge feeds the inner loop's Enter in place of the Const. If a node runs only in the first
// iteration (it depends on an Enter without a Merge), its _Recv depends on the small loop's Enter. If it runs in all but the first, its
// _Recv depends on the small loop's NextIteration. A dead branch needs no special treatment as long as the executor runs _Send and _Recv
// when their inputs are dead: the dead bit is transferred, and a dead LoopCond ends the small loops.
//
// Every device that reads an Enter or a NextIteration has one of its own, so that a value crosses before it enters the loop. An invariant
// (a constant Enter) crosses once, not in each iteration. If the other device has no kernel for such a node (Options.Supports), the node
// stays where it is.
//
// The construction is that of TensorFlow's graph_partition.cc. The three ways of starting a _Recv, the invariants and the shared control
// edges are Troupe's.
package partition
