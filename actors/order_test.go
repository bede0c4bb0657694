package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestPlansAreThoseOfSets runs steps, callables and partial runs whose signatures differ in the order of their names. They share a plan, and
// get their results in their own order.
func TestPlansAreThoseOfSets(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a := net.node(taskName("a"))
	text := ""
	const n = 4
	for i := range n {
		text += fmt.Sprintf("x%d = Placeholder() @a0\ny%d = Neg(x%d) @b0\n", i, i, i)
	}
	c := open(t, a, text)
	name := func(prefix string, i int) string { return fmt.Sprintf("%s%d:0", prefix, i) }
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		feeds, fetches := random.Perm(n), append(random.Perm(n), random.IntN(n)) // one twice
		req := &StepRequest{}
		o := &corepb.CallableOptions{}
		var values []*tensor.Tensor
		for _, i := range feeds {
			v := tensor.Scalar(tensor.Int64, int64(i))
			defer v.Release()
			values = append(values, v)
			req.Feeds = append(req.Feeds, Feed{name("x", i), v})
			o.Feed = append(o.Feed, name("x", i))
		}
		for _, i := range fetches {
			req.Fetches = append(req.Fetches, name("y", i))
		}
		o.Fetch = req.Fetches
		check := func(what string, got []*tensor.Tensor, err error) {
			if err != nil {
				t.Fatal(what, err)
			}
			for k, i := range fetches {
				if v := tensor.Of[int64](got[k])[0]; v != -int64(i) {
					t.Errorf("%s: fetch %d of %v with feeds %v is %d", what, k, fetches, feeds, v)
				}
				got[k].Release()
			}
		}
		r, err := c.session.Run(context.Background(), req)
		check("a step", r.Tensors, err)
		callable, err := c.session.Prepare(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]*tensor.Tensor, len(fetches))
		_, err = callable.Run(context.Background(), values, got, nil)
		check("a callable", got, err)
	}
	// Which fetch there are two of makes another set.
	if got := c.session.plans.Load().count(); got != n {
		t.Errorf("%d plans for %d sets", got, n)
	}
	p := c.session
	for range 3 {
		feeds, fetches := random.Perm(n), random.Perm(n)
		var in, out []string
		for k := range n {
			in, out = append(in, name("x", feeds[k])), append(out, name("y", fetches[k]))
		}
		handle, err := p.PartialSetup(context.Background(), in, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			v := tensor.Scalar(tensor.Int64, int64(10*i))
			r, err := p.Run(context.Background(), &StepRequest{Partial: handle, Feeds: []Feed{{name("x", i), v}}, Fetches: []string{name("y", i)}})
			v.Release()
			if err != nil {
				t.Fatal(err)
			}
			if v := tensor.Of[int64](r.Tensors[0])[0]; v != -int64(10*i) {
				t.Errorf("the partial run's fetch %d is %d", i, v)
			}
			r.Release()
		}
	}
	if got := p.plans.Load().count(); got != n+1 {
		t.Errorf("%d plans for %d sets", got, n+1)
	}
}

// TestOrdersAreBounded checks that the entries for other orders of names go with their plans, and are forgotten when there are too many.
func TestOrdersAreBounded(t *testing.T) {
	all := plans{}
	for i := range maxPlans + 1 {
		p := &plan{}
		p.used.Store(int64(i))
		all[fmt.Sprint(i)] = entry{p, nil}
		all[fmt.Sprint(i, "other")] = entry{p, &order{}}
	}
	all.trim()
	if _, ok := all["0 other"]; len(all) != 2*maxPlans || ok {
		t.Errorf("%d entries are left, the oldest plan's order: %v", len(all), ok)
	}
	for i := range maxOrders {
		all[fmt.Sprint("more", i)] = entry{all["1"].plan, &order{}}
	}
	if all.trim(); len(all) != maxPlans {
		t.Errorf("%d entries are left of too many", len(all))
	}
}
