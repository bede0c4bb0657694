package node

import (
	"reflect"

	"github.com/troupe-run/troupe/actors/cast"
)

// RegisterMessage makes values of a struct type messages of actors, beside protocol buffers. The name stands for the type between tasks, and for
// clients, so all programs register the type by the same name. It is called before the first message is sent, mostly for a variable:
//
//	type Order struct {
//		Item  string
//		Count int
//	}
//
//	var _ = node.RegisterMessage[Order]("shop.Order")
//	…
//	err := server.Send(ctx, orders, Order{"tea", 3})
//
// Receive, and the handler that Handle makes, get an Order. Messages are encoded as JSON by encoding/json, on the same task too: sender and
// receiver share nothing, fields that JSON omits are lost, and NaN cannot be sent. A program that knows other fields ignores those that it
// does not know. Clients of other languages send {"@type": "shop.Order", "Item": "tea", "Count": 3}.
//
// Values of Go's basic types (bool, string, []byte, int, int32, int64, uint32, uint64, float32 and float64) are messages without it. What is sent
// for them are protocol buffers, such as google.protobuf.StringValue, and Receive gets these; Handle, Answer and Ask take the basic type itself. An
// int is sent like an int64. Of bytes, the receiver must not change what it gets.
//
// It returns the name. It panics if the type is not a struct or is a protocol buffer, if the name does not have the form of a protocol
// buffer's full name, or if the type or the name has been registered.
func RegisterMessage[T any](name string) string {
	if err := cast.RegisterType(name, reflect.TypeFor[T]()); err != nil {
		panic("troupe: RegisterMessage: " + err.Error())
	}
	return name
}
