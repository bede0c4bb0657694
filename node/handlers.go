package node

import (
	"fmt"
	"reflect"

	"github.com/troupe-run/troupe/actors/cast"
	"google.golang.org/protobuf/proto"
)

// Handler handles an actor's messages of one type; Handle and Answer return one.
type Handler struct {
	of   reflect.Type
	call func(c *ActorContext, message any)
}

// Handle returns a handler for messages of type M. M is the type that Receive gets, such as *wrapperspb.Int64Value, ActorEnded, ActorAnswer,
// or that of a timer's message, or a basic type whose values are messages, such as string. Handle panics if M is an interface.
func Handle[M any](handle func(c *ActorContext, message M)) Handler {
	of := reflect.TypeFor[M]()
	if of.Kind() == reflect.Interface {
		panic(fmt.Sprintf("the handler of an actor is for an interface, %v, and not for the type of a message", of))
	}
	return Handler{of, func(c *ActorContext, message any) {
		if m, ok := cast.As[M](message); ok {
			handle(c, m)
		} else {
			c.context.Drop(message) // a number that is too large for an int
		}
	}}
}

// Answer returns a handler for requests of type M, whose answers have type A. What answer returns is the answer of Ask, or its error, with its code. A
// message of Send is handled alike: its answer is dropped, and its error logged. Answer panics if M is an interface.
func Answer[M, A any](answer func(c *ActorContext, message M) (A, error)) Handler {
	return Handle(func(c *ActorContext, message M) {
		a, err := answer(c, message)
		var m proto.Message
		if err == nil {
			m, err = cast.Enclose(a)
		}
		c.context.Conclude(m, err)
	})
}

// Handlers returns an actor that passes each message to the handler of its type:
//
//	return node.Handlers(
//		node.Handle(func(c *node.ActorContext, m *wrapperspb.Int64Value) { sum += m.Value }),
//		node.Answer(func(*node.ActorContext, *emptypb.Empty) (*wrapperspb.Int64Value, error) { return wrapperspb.Int64(sum), nil }),
//	), nil
//
// Without a handler, an Ask fails with UNIMPLEMENTED, and another message is dropped and logged. To make the actor an io.Closer, embed it in a
// type with a Close method. Handlers panics if two handlers are for the same type, such as string and *wrapperspb.StringValue, which is sent for it.
func Handlers(handlers ...Handler) Actor {
	byType := make(map[reflect.Type]func(*ActorContext, any), len(handlers))
	for _, h := range handlers {
		for _, of := range []reflect.Type{h.of, cast.WrapperOf(h.of)} {
			switch {
			case of == nil:
			case byType[of] != nil:
				panic(fmt.Sprintf("two handlers of an actor are for %v", of))
			default:
				byType[of] = h.call
			}
		}
	}
	return ActorFunc(func(c *ActorContext, message any) {
		if handle := byType[reflect.TypeOf(message)]; handle != nil {
			handle(c, message)
			return
		}
		c.context.Drop(message)
	})
}

// Stateless returns a maker of actors that have handlers and no state of their own, so that all actors of their kind may share them:
//
//	node.WithActor("greeter", node.Stateless(node.Answer(greet)))
//
// Handlers of different actors run concurrently. Stateless panics whenever Handlers does.
func Stateless(handlers ...Handler) ActorMaker {
	shared := Handlers(handlers...)
	return func(*ActorContext, any) (Actor, error) { return shared, nil }
}
