package subnormal

import (
	"math"
	"runtime"
	"sync"
	"testing"
)

// kept reports whether this goroutine keeps subnormal numbers, as operands and as results.
//
//go:noinline
func kept(small float32, tiny float64) bool {
	return small*0.5 != 0 || tiny+tiny != 0
}

func TestScopes(t *testing.T) {
	if bits == 0 {
		t.Skip("the processor has no such mode")
	}
	expect := func(where string, want bool) {
		t.Helper()
		if got := kept(0x1p-126, math.SmallestNonzeroFloat64); got != want || Flushing() == want {
			t.Errorf("%s: subnormal numbers are kept: %v, flushing: %v", where, got, Flushing())
		}
	}
	expect("before", true)
	func() {
		defer Flush().End()
		expect("in a scope", false)
		func() {
			defer Flush().End()
			expect("in a scope within it", false)
		}()
		expect("after that", false)
		resume := Pause()
		expect("in a pause", true)
		Pause()()
		expect("after a pause without a scope", true)
		resume()
		expect("after the pause", false)
		done := make(chan bool)
		go func() { done <- kept(0x1p-126, math.SmallestNonzeroFloat64) }()
		if !<-done {
			t.Error("another goroutine flushes")
		}
		expect("after a wait", false)
	}()
	expect("after the scope", true)
	func() {
		defer func() { _ = recover() }() // the panic above is intentional
		defer Flush().End()
		panic("in a scope")
	}()
	expect("after a panic", true)
}

// TestScopesAreOfTheirGoroutines checks that goroutines with and without scopes, which share threads, are preempted and wait, never see
// each other's mode.
func TestScopesAreOfTheirGoroutines(t *testing.T) {
	if bits == 0 {
		t.Skip("the processor has no such mode")
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 200 {
				if i%2 == 0 {
					if !kept(0x1p-126, math.SmallestNonzeroFloat64) {
						t.Error("subnormal numbers are lost without a scope")
					}
					runtime.Gosched()
					continue
				}
				s := Flush()
				if n%50 == 0 {
					runtime.GC() // starts threads and stops all goroutines
				}
				if kept(0x1p-126, math.SmallestNonzeroFloat64) {
					t.Error("subnormal numbers are kept in a scope")
				}
				s.End()
			}
		})
	}
	all.Wait()
}

// TestScopesAreBounded checks that there are never more scopes than places, and that all places are free afterwards.
func TestScopesAreBounded(t *testing.T) {
	if bits == 0 {
		t.Skip("the processor has no such mode")
	}
	begun, stop := make(chan bool), make(chan struct{})
	var all sync.WaitGroup
	for range maxScopes + 50 {
		all.Go(func() {
			defer Flush().End()
			begun <- Flushing()
			<-stop
		})
	}
	in := 0
	for range maxScopes + 50 {
		if <-begun {
			in++
		}
	}
	if in != maxScopes {
		t.Errorf("%d scopes at a time, want %d", in, maxScopes)
	}
	close(stop)
	all.Wait()
	for i := range places {
		if n := places[i].taken.Load(); n != 0 {
			t.Errorf("group %d has %d scopes after the last", i, n)
		}
	}
}
