package view

import (
	"context"
	"fmt"
	"strings"
)

// waiterKey is the key of a Waiter in a context.
type waiterKey struct{}

// Await returns a context for a wait for another task. who describes what waits, for people, such as "session 1f3a".
func Await(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, waiterKey{}, who)
}

// Waiter returns what waits with a context, as Await describes it.
func Waiter(ctx context.Context) string {
	if who, ok := ctx.Value(waiterKey{}).(string); ok {
		return who
	}
	return "a request"
}

// maxSeveral is how many names Several lists.
const maxSeveral = 4

// Several lists names in a line, the first few of many.
func Several(names []string) string {
	if more := len(names) - maxSeveral; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxSeveral], ", "), more)
	}
	return strings.Join(names, ", ")
}
