package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
)

var randomDevices = []string{"", "", "", "/job:ps", "/task:1", "/job:worker/task:1", "/cpu:0", "/gpu:0", "/job:ps/task:1/cpu:0",
	"/gpu:1", "/job:none"}

// randomGraph returns a graph whose nodes are chosen by the seed. Without edges, nodes are connected only by colocation.
func randomGraph(seed uint64, nodes int, withEdges bool) *sketch {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &sketch{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		op := []string{"VariableV2", "VarHandleOp", "Add", "Placeholder", "Shape", "Identity", "Const"}[r.IntN(7)]
		opts := []option{on(randomDevices[r.IntN(len(randomDevices)-r.IntN(2))])}
		if r.IntN(4) == 0 {
			opts = append(opts, with(fmt.Sprintf("n%d", r.IntN(nodes+2))))
		}
		if withEdges {
			for _, n := range s.nodes {
				switch r.IntN(3 * nodes / 2) {
				case 0:
					opts = append(opts, uses(n.Name))
				case 1:
					opts = append(opts, in(n.Name))
				case 2:
					opts = append(opts, after(n.Name))
				}
			}
		}
		if op == "Shape" || op == "Identity" {
			if len(s.nodes) == 0 || !withEdges {
				op = "Add"
			} else {
				opts = append(opts, in(s.nodes[r.IntN(len(s.nodes))].Name))
			}
		}
		s.node(name, op, opts...)
	}
	return s
}

var randomCluster = []string{w0, w1, ps0, ps1, w1gpu0, w1gpu1}

// broken returns the constraint that a placed graph violates, or "".
func broken(s *sketch, devices []Device, soft bool) string {
	ds := map[string]Spec{}
	for _, d := range devices {
		ds[d.Name] = d.Spec
	}
	users := map[*graph.Node]bool{} // whose request may have yielded to a resource's
	class := map[string][]*graph.Node{}
	for _, n := range s.nodes {
		for k, i := range n.Inputs {
			if isResource(n.InTypes[k]) {
				users[n], users[i.Node] = true, true
				if i.Node.Assigned != n.Assigned {
					return fmt.Sprintf("%s uses %s but is on %s", n.Name, i.Node.Name, n.Assigned)
				}
			}
		}
		_ = classesOf(n, func(name string) error { class[name] = append(class[name], n); return nil })
	}
	for name, members := range class {
		if n := s.byName[name]; n != nil {
			members = append(members, n)
		}
		for _, n := range members {
			users[n] = users[n] || slices.ContainsFunc(members, func(m *graph.Node) bool { return users[m] })
			if n.Assigned != members[0].Assigned && !soft {
				return fmt.Sprintf("%s and %s are not colocated", n.Name, members[0].Name)
			}
		}
	}
	for _, n := range s.nodes {
		dev, ok := ds[n.Assigned]
		if !ok {
			return fmt.Sprintf("%s is on %q", n.Name, n.Assigned)
		}
		if !supports(n, dev.Type) {
			return fmt.Sprintf("%s (%s) has no kernel for %s", n.Name, n.Op, n.Assigned)
		}
		asked, err := Parse(n.Requested)
		if soft {
			asked = asked.OnTask()
		}
		if err != nil || !asked.Matches(dev) && !users[n] && !inGroupOfUser(n, s, users) {
			return fmt.Sprintf("%s asks for %s but is on %s", n.Name, n.Requested, n.Assigned)
		}
	}
	return ""
}

// inGroupOfUser reports whether n is connected, through colocations, with a node whose request may yield.
func inGroupOfUser(n *graph.Node, s *sketch, users map[*graph.Node]bool) bool {
	for _, m := range naiveGroup(n, s) {
		if users[m] {
			return true
		}
	}
	return false
}

// naiveGroup returns the nodes connected with n through colocations and resource edges.
func naiveGroup(n *graph.Node, s *sketch) []*graph.Node {
	names := func(n *graph.Node) (out []string) {
		out = []string{n.Name}
		_ = classesOf(n, func(name string) error { out = append(out, name); return nil })
		return out
	}
	near := func(a, b *graph.Node) bool {
		for k, i := range a.Inputs {
			if i.Node == b && isResource(a.InTypes[k]) {
				return true
			}
		}
		return slices.ContainsFunc(names(a), func(x string) bool { return slices.Contains(names(b), x) })
	}
	group := []*graph.Node{n}
	for i := 0; i < len(group); i++ {
		for _, m := range s.nodes {
			if !slices.Contains(group, m) && (near(group[i], m) || near(m, group[i])) {
				group = append(group, m)
			}
		}
	}
	return group
}

func assigned(s *sketch) (out []string) {
	for _, n := range s.nodes {
		out = append(out, n.Assigned)
	}
	return out
}

// TestRandomGraphs checks that placements obey the constraints and are deterministic, and that extending a graph does not move its placed
// nodes.
func TestRandomGraphs(t *testing.T) {
	placed, grown := 0, 0
	for seed := range uint64(4000) {
		soft := seed%2 == 0
		o := Options{Devices: devicesOf(t, randomCluster...), SoftPlacement: soft, Supports: supports}
		nodes := 3 + int(seed%12)
		s, again, parts := randomGraph(seed, nodes, true), randomGraph(seed, nodes, true), randomGraph(seed, nodes, true)
		err, errAgain := Place(s.graph(), s.nodes, o), Place(again.graph(), again.nodes, o)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) || !slices.Equal(assigned(s), assigned(again)) {
			t.Fatalf("seed %d: %v on %v, then %v on %v", seed, err, assigned(s), errAgain, assigned(again))
		}
		if err == nil {
			placed++
			if why := broken(s, o.Devices, soft); why != "" {
				t.Fatalf("seed %d: %s", seed, why)
			}
		}

		cut := nodes / 2
		first := graph.New(parts.nodes[:cut], nil, 0)
		if Place(first, parts.nodes[:cut], o) != nil {
			continue
		}
		before := slices.Clone(assigned(parts)[:cut])
		if err := Place(parts.graph(), parts.nodes[cut:], o); err != nil {
			if slices.ContainsFunc(assigned(parts)[cut:], func(d string) bool { return d != "" }) {
				t.Fatalf("seed %d: nodes are placed in spite of %v", seed, err)
			}
		} else {
			grown++
			if why := broken(parts, o.Devices, soft); why != "" {
				t.Fatalf("seed %d, grown: %s", seed, why)
			}
		}
		if !slices.Equal(before, assigned(parts)[:cut]) {
			t.Fatalf("seed %d: nodes moved from %v to %v", seed, before, assigned(parts)[:cut])
		}
	}
	if placed < 200 || grown < 200 {
		t.Errorf("only %d graphs were placed and %d grown: the test tests little", placed, grown)
	}
}

// TestAgainstOracle compares groups connected by colocation with the result of trying all devices: an error if no device suits the whole
// group, otherwise the best one.
func TestAgainstOracle(t *testing.T) {
	failed := 0
	for seed := range uint64(3000) {
		s := randomGraph(seed, 2+int(seed%8), false)
		set, err := newDeviceSet(devicesOf(t, randomCluster...))
		if err != nil {
			t.Fatal(err)
		}
		want, possible := make([]string, len(s.nodes)), true
		for i, n := range s.nodes {
			for _, d := range set.devices {
				suits := !slices.ContainsFunc(naiveGroup(n, s), func(m *graph.Node) bool {
					asked, err := Parse(m.Requested)
					return err != nil || !asked.Matches(d.Spec) || !supports(m, d.Spec.Type)
				})
				if suits {
					want[i] = d.Name
					break
				}
			}
			possible = possible && want[i] != ""
		}
		err = Place(s.graph(), s.nodes, Options{Devices: set.devices, Supports: supports})
		switch {
		case possible != (err == nil):
			t.Fatalf("seed %d: error %v, oracle %v", seed, err, want)
		case err != nil:
			failed++
		case !slices.Equal(assigned(s), want):
			t.Fatalf("seed %d: on %v, oracle %v", seed, assigned(s), want)
		}
	}
	if failed < 100 || failed > 2900 {
		t.Errorf("%d of 3000 graphs are impossible: the test tests little", failed)
	}
}
