package gpu

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// share is the driver's context as shared by the devices of this process on one card. When it breaks, all of them must abandon it before
// one resets it.
type share struct {
	lives  map[*life]bool // lives that use the context
	leaves []*life        // lives that have found it broken, and wait for the others
	left   chan struct{}  // closed when the contexts of leaves have been closed
}

// shares holds the shares of all cards in use, and guards their contents.
var shares struct {
	sync.Mutex
	of map[Card]*share
}

// enter opens a card's context for a life.
func enter(card Card, l *life) (err error) {
	shares.Lock()
	defer shares.Unlock()
	if l.context, err = card.Open(); err != nil {
		return err
	}
	s := shares.of[card]
	if s != nil && len(s.leaves) > 0 {
		return errors.Join(status.Errorf(status.Unavailable, "the card is being reset"), l.context.Close(false))
	}
	if s == nil {
		if shares.of == nil {
			shares.of = map[Card]*share{}
		}
		s = &share{lives: map[*life]bool{}, left: make(chan struct{})}
		shares.of[card] = s
	}
	s.lives[l] = true
	l.share = s
	return nil
}

// closeContext closes the context of a life that ends normally.
func (l *life) closeContext() error {
	shares.Lock()
	defer shares.Unlock()
	err := l.context.Close(false)
	l.share.without(l)
	return err
}

// without removes l from the share, and lets the others continue.
func (s *share) without(l *life) {
	delete(s.lives, l)
	if len(s.lives) == 0 && len(s.leaves) > 0 {
		s.finish()
	}
	if card := l.device.opts.Card; len(s.lives) == 0 && shares.of[card] == s {
		delete(shares.of, card)
	}
}

// abandon closes the context of a lost life, with a reset, once all lives that share it have been notified and have abandoned it, too. It
// waits at most patience for that; after an error it must be called again.
func (l *life) abandon() error {
	s := l.share
	shares.Lock()
	if s.lives[l] {
		s.leaves = append(s.leaves, l)
		for other := range s.lives {
			if other != l {
				go other.lose(fmt.Errorf("another device on its card was lost: %w", l.over()))
			}
		}
		s.without(l)
	}
	shares.Unlock()
	timer := time.NewTimer(l.device.opts.grace)
	defer timer.Stop()
	select {
	case <-s.left:
		l.buried = true
		return l.closing
	case <-timer.C:
		return status.Errorf(status.Unavailable, "another device on its card has not let it go yet")
	}
}

// finish closes the contexts of the lives that have abandoned it, the last one with a reset. Lives that enter later form a new share.
func (s *share) finish() {
	for i, l := range s.leaves {
		l.closing = errors.Join(l.context.Bind(), l.context.Close(i == len(s.leaves)-1))
	}
	s.leaves = nil
	close(s.left)
}
