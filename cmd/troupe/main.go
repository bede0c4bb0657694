// Troupe runs and drives clusters whose servers TensorFlow's own client talks to.
//
//	troupe serve       runs one task of a cluster until it is stopped
//	troupe up          runs a whole cluster in one process
//	troupe demo        shows a cluster at work, and ends
//	troupe devices     lists the devices of a cluster
//	troupe status      shows which tasks of a cluster are up
//	troupe wait        waits until the tasks of a cluster are up
//	troupe actors      lists the actors of a task
//	troupe ask         sends a message to a program's actor and prints its answer
//	troupe send        sends a message to a program's actor
//	troupe sessions    lists the open sessions of a cluster
//	troupe steps       lists the steps that run, and what holds them up
//	troupe why         explains why a step does not end
//	troupe cancel      cancels a step
//	troupe timeline    records what runs on all tasks, for Perfetto
//	troupe queues      lists the queues of a cluster
//	troupe containers  lists what the containers of a cluster hold
//	troupe links       lists the connections between the tasks of a cluster
//	troupe events      shows the latest events of a cluster
//	troupe top         watches a cluster at work
//	troupe reset       closes a server's sessions and empties containers
//	troupe drain       stops a task when its steps have ended
//	troupe data        inspects what stopped tasks have stored
//	troupe doctor      finds what is wrong with a cluster or this machine
//	troupe bench       measures the links of a cluster
//	troupe context     names clusters, and chooses one
//	troupe proxy       carries a client's plain connections to a server with TLS
//	troupe certs       makes and shows the certificates of a cluster
//	troupe secret      makes a cluster's secret
//	troupe token       makes tokens for clients
//	troupe policy      checks what a policy allows
//	troupe version     prints the version
//
// The exit code is 0 on success, 1 when something failed, 2 for a command line that it does not understand, 3
// for a cluster or configuration that is refused, and 4 when a server cannot be reached.
package main

import (
	"context"
	"io"
	"os"

	"github.com/troupe-run/troupe/serve"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run runs the command with its environment as arguments, and returns the exit code.
func run(ctx context.Context, args []string, stdin *os.File, stdout, stderr io.Writer) int {
	root := newRoot(stdin)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return serve.Execute(ctx, root, args)
}
