// Package metamorphic makes random programs and checks that a cluster runs them right, whatever the cluster and
// however the program is run. It needs no TensorFlow.
//
// A [Program] is a list of statements and a script. Statements compute small matrices, change variables, references and
// queues, and nest in conditionals, loops and functions of both kinds. The script is what a client does with them: steps
// of one or two sessions, each with its own fetches, feeds and targets, extensions of the graph, callables, partial
// runs, steps in parallel, and steps that fail.
//
// Two things can be done with a program: [Draw] makes a GraphDef of it, and a [Machine] interprets it, one
// statement after the other, in plain Go. The interpreter is the oracle: every [Variant] of a program (how many tasks, which
// master, which places, functions lowered or not, constants fed or not, traced or not, nodes in another order)
// has to fetch exactly what the interpreter computes, and so do all steps of a script, whatever else they fetch. That
// covers the relations between runs: fetching more changes nothing, neither does splitting a step in two, feeding a
// tensor with the value that it has, or asking a fresh session.
//
// All numbers are integers of limited size, also those of type float, so that sums and products do not depend on the
// order in which they are computed, and results are compared for equality.
//
// A program that fails is made smaller by [Clusters.Shrink] and printed as a listing.
package metamorphic
