package troupe_test

import (
	"math"
	"reflect"
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
			for _, bad := range []any{unsent{}, int8(7), odd{}, order{Price: math.NaN()}, &order{}, nil} {
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

// echoes are actors that answer a message with itself, one kind for each basic type of Go whose values are messages.
var echoes = map[string]troupe.ActorMaker{}

// basicType is what TestMessagesOfBasicTypes does with a type.
type basicType struct {
	name string
	ask  func(t *testing.T, s *troupe.Server, to troupe.ActorRef)
}

// echoed makes a kind of actors for a type, and asks them with values.
func echoed[T any](values ...T) basicType {
	name := strings.NewReplacer("[]", "many-").Replace(reflect.TypeFor[T]().String())
	echoes[name] = troupe.Stateless(troupe.Answer(func(_ *troupe.ActorContext, v T) (T, error) { return v, nil }))
	return basicType{name, func(t *testing.T, s *troupe.Server, to troupe.ActorRef) {
		for _, v := range values {
			if got, err := troupe.Ask[T](t.Context(), s, to, v); err != nil || !reflect.DeepEqual(got, v) {
				t.Errorf("%v: %T %v came back as %v, %v", to, v, v, got, err)
			}
		}
		var none struct{}
		if _, err := troupe.Ask[struct{}](t.Context(), s, to, values[0]); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("%v: %T is taken for a %T: %v", to, values[0], none, err)
		}
	}}
}

func TestMessagesOfBasicTypes(t *testing.T) {
	types := []basicType{
		echoed(false, true), echoed("", "Hällo", "\x00"), echoed([]byte("\xff\x00")), echoed(0, -1, math.MaxInt), echoed[int32](0, math.MinInt32),
		echoed[int64](0, math.MinInt64), echoed[uint32](0, math.MaxUint32), echoed[uint64](0, math.MaxUint64), echoed[float32](0, -1.5),
		echoed(0, -1.5, math.Inf(1)),
	}
	synctest.Test(t, func(t *testing.T) {
		var opts []troupe.Option
		for kind, maker := range echoes {
			opts = append(opts, troupe.WithActor(kind, maker))
		}
		c := troupetest.Start(t, map[string]int{"worker": 2}, opts...)
		s := c.Server("worker:0")
		for _, basic := range types {
			for _, task := range []string{"worker:0", "worker:1"} {
				echo, err := s.Spawn(t.Context(), basic.name, troupe.ActorAt(task, ""), nil)
				if err != nil {
					t.Fatal(err)
				}
				basic.ask(t, s, echo)
			}
		}
		// The protocol buffers that are sent for them are the same messages.
		echo, err := s.Spawn(t.Context(), "string", troupe.ActorAt("worker:1", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := troupe.Ask[*wrapperspb.StringValue](t.Context(), s, echo, wrapperspb.String("x")); err != nil || got.Value != "x" {
			t.Error(got, err)
		}
		if got, err := troupe.Ask[string](t.Context(), s, echo, 7); status.CodeOf(err) != status.Unimplemented {
			t.Error(got, err)
		}
	})
	type celsius float64
	if err := sendNowhere(t, celsius(3)); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "celsius") {
		t.Error(err)
	}
	defer func() {
		if p := recover(); p == nil {
			t.Error("a message has two handlers")
		}
	}()
	troupe.Handlers(troupe.Handle(func(*troupe.ActorContext, string) {}), troupe.Handle(func(*troupe.ActorContext, *wrapperspb.StringValue) {}))
}

// sendNowhere returns the error of a message to an actor that does not exist.
func sendNowhere(t *testing.T, message any) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := troupetest.Start(t, map[string]int{"worker": 1}).Server("worker:0")
		err = s.Send(t.Context(), troupe.ActorAt("worker:0", "none"), message)
	})
	return err
}

// The sender of bytes may use its slice again.
func TestBytesOfAMessageAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		s := troupetest.Start(t, map[string]int{"worker": 1}, troupe.WithActor("bytes", troupe.Stateless(
			troupe.Handle(func(_ *troupe.ActorContext, b []byte) { got <- string(b) })))).Server("worker:0")
		to, err := s.Spawn(t.Context(), "bytes", troupe.ActorRef{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := []byte("first")
		if err := s.Send(t.Context(), to, b); err != nil {
			t.Fatal(err)
		}
		copy(b, "other")
		if text := <-got; text != "first" {
			t.Error(text)
		}
	})
}
