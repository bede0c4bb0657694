package lower

import (
	"strings"

	"github.com/troupe-run/troupe/graph"
)

// colocated returns the devices that a body's nodes request, by ID. A node that requests no device, but is colocated with nodes of the
// body that request one, gets theirs: it must not get the caller's instead.
func colocated(fg *graph.FunctionGraph) []string {
	devices, groups := make([]string, len(fg.Nodes)), make([]int, len(fg.Nodes))
	root := func(id int) int {
		for groups[id] != id {
			groups[id] = groups[groups[id]]
			id = groups[id]
		}
		return id
	}
	for id, n := range fg.Nodes {
		devices[id], groups[id] = n.Requested, id
	}
	for id, n := range fg.Nodes {
		for _, v := range n.Attrs["_class"].GetList().GetS() {
			with, is := strings.CutPrefix(string(v), "loc:@")
			if of := fg.Lookup(with); is && of != nil && of.Op != "_Arg" {
				groups[root(id)] = root(of.ID)
			}
		}
	}
	asked := map[int]string{}
	for id, n := range fg.Nodes {
		if g := root(id); n.Requested != "" && asked[g] == "" {
			asked[g] = n.Requested
		}
	}
	for id := range devices {
		if devices[id] == "" {
			devices[id] = asked[root(id)]
		}
	}
	return devices
}
