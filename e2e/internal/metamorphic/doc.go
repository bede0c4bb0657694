// Package metamorphic makes random programs and checks that a cluster runs them correctly, whatever the cluster
// and however the program is run. It needs no TensorFlow.
//
// A [Program] is a list of statements and a script. Statements compute small matrices, change variables,
// references and queues, and nest in conditionals, loops and functions of both kinds. The script is what a
// client does with them: steps of one or two sessions, each with its own fetches, feeds and targets, extensions
// of the graph, callables, partial runs, parallel steps, and steps that fail.
//
// A program is used in two ways: [Draw] makes a GraphDef of it, and a [Machine] interprets it, one statement after the other, in plain Go.
// The interpreter is the oracle. Every [Variant] of a program (how many tasks, which master, which devices, functions lowered or not,
// constants fed or not, traced or not, nodes in another order) must fetch exactly what the interpreter computes, and so must every step of
// a script, whatever else it fetches. This covers the relations between runs: nothing changes when a step fetches more, is split in two, is
// fed a tensor with the value that it has, or runs in a fresh session.
//
// All numbers are integers of limited size, even those of type float. Sums and products therefore do not depend
// on the order of computation, and results are compared for equality.
//
// [Clusters.Shrink] shrinks a program that fails, which is then printed as a listing.
package metamorphic
