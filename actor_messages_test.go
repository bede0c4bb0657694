package troupe_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/troupetest"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type (
	order struct {
		Item  string
		Count int
		Price float64
		Notes map[string][]byte `json:",omitempty"`
	}
	total  struct{ Orders, Items int }
	unsent struct{}
	odd    struct{}
)

func (odd) MarshalJSON() ([]byte, error) { return []byte("7"), nil }

var (
	_ = troupe.RegisterMessage[order]("test.Order")
	_ = troupe.RegisterMessage[total]("shop.Total")
	_ = troupe.RegisterMessage[odd]("shop.Odd")
)

// newTestShop makes actors whose messages, arguments and answers are of Go types.
func newTestShop(c *troupe.ActorContext, arguments any) (troupe.Actor, error) {
	sum, _ := arguments.(total)
	return troupe.Handlers(
		troupe.Handle(func(c *troupe.ActorContext, o order) {
			sum.Orders++
			sum.Items += o.Count
			c.Reply(o)
		}),
		troupe.Handle(func(c *troupe.ActorContext, _ *emptypb.Empty) { c.Reply(sum) }),
		troupe.Handle(func(c *troupe.ActorContext, f *wrapperspb.StringValue) {
			ref, err := troupe.ParseActorRef(f.Value)
			if err != nil {
				c.Fail(err)
				return
			}
			kept := c.Keep()
			c.Ask(ref, order{Item: "cake", Count: 1}, time.Second, kept)
		}),
		troupe.Handle(func(c *troupe.ActorContext, a troupe.ActorAnswer) {
			if a.Err != nil {
				a.Tag.(*troupe.ActorRequest).Fail(a.Err)
				return
			}
			a.Tag.(*troupe.ActorRequest).Reply(a.Message)
		}),
	), nil
}

func TestMessagesOfGoTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := troupetest.Start(t, map[string]int{"worker": 2}, troupe.WithActor("shop", newTestShop))
		s := c.Server("worker:0")
		for _, task := range []string{"worker:0", "worker:1"} {
			shop, err := s.Spawn(t.Context(), "shop", troupe.ActorAt(task, "shop"), total{Orders: 1, Items: 10})
			if err != nil {
				t.Fatal(err)
			}
			sent := order{"tea", 3, 1.5, map[string][]byte{"a": {0, 255}}}
			got, err := troupe.Ask[order](t.Context(), s, shop, sent)
			if err != nil || got.Item != "tea" || got.Count != 3 || got.Price != 1.5 || string(got.Notes["a"]) != "\x00\xff" {
				t.Errorf("%s answered %+v, %v", task, got, err)
			}
			if err := s.Send(t.Context(), shop, order{Item: "milk", Count: 2}); err != nil {
				t.Error(err)
			}
			cake, err := troupe.Ask[order](t.Context(), s, shop, wrapperspb.String("worker:1/actor:other"))
			if status.CodeOf(err) != status.NotFound {
				t.Errorf("an actor asked one that does not exist, and got %+v, %v", cake, err)
			}
			if sum, err := troupe.Ask[total](t.Context(), s, shop, &emptypb.Empty{}); err != nil || sum != (total{3, 15}) {
				t.Errorf("%s has %+v, %v", task, sum, err)
			}
			if _, err := troupe.Ask[total](t.Context(), s, shop, sent); status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("an answer of another type: %v", err)
			}
			if _, err := troupe.Ask[total](t.Context(), s, shop, total{}); status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "shop.Total") {
				t.Errorf("a message without a handler: %v", err)
			}
			for _, bad := range []any{unsent{}, 7, odd{}, order{Price: math.NaN()}, &order{}, nil} {
				if err := s.Send(t.Context(), shop, bad); status.CodeOf(err) != status.InvalidArgument {
					t.Errorf("a message %T: %v", bad, err)
				}
			}
			a := c.Dial("worker:0").Actor(task, "shop")
			text, err := a.AskJSON(t.Context(), `{"@type": "test.Order", "Item": "bread", "Count": 4}`)
			if want := `{"@type":"type.googleapis.com/test.Order","Item":"bread","Count":4,"Price":0}`; err != nil || text != want {
				t.Errorf("a client got %s, %v", text, err)
			}
			for _, bad := range []string{`{"@type": "test.Order", "Count": "four"}`, `{"@type": "shop.Nothing"}`} {
				if _, err := a.AskJSON(t.Context(), bad); status.CodeOf(err) != status.InvalidArgument {
					t.Errorf("%s: %v", bad, err)
				}
			}
		}
		cake, err := troupe.Ask[order](t.Context(), s, troupe.ActorAt("worker:0", "shop"), wrapperspb.String("worker:1/actor:shop"))
		if err != nil || cake.Item != "cake" {
			t.Errorf("an answer by way of another actor: %+v, %v", cake, err)
		}
	})
}

func TestTypesThatAreNoMessages(t *testing.T) {
	for what, register := range map[string]func(){
		"a name with a space":   func() { troupe.RegisterMessage[unsent]("shop order") },
		"a registered name":     func() { troupe.RegisterMessage[unsent]("test.Order") },
		"a registered type":     func() { troupe.RegisterMessage[order]("test.Order2") },
		"a pointer":             func() { troupe.RegisterMessage[*unsent]("shop.Unsent") },
		"no struct":             func() { troupe.RegisterMessage[int]("shop.Int") },
		"a protocol buffer":     func() { troupe.RegisterMessage[emptypb.Empty]("shop.Empty") }, //nolint:govet // its lock is not copied
		"a name of one of them": func() { troupe.RegisterMessage[unsent]("google.protobuf.Empty") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was registered", what)
				}
			}()
			register()
		}()
	}
}
