package http2

// send queues a request, as fast as the server's windows and the kernel accept it. It stops early if the call is over.
// mu is held, but released at times.
func (c *Client) send(p *clientCall, request [][]byte) {
	size := 0
	for _, piece := range request {
		size += len(piece)
	}
	for left, head, at := prefixSize+size, true, 0; left > 0; {
		n, ok := c.room(p, left)
		if !ok {
			break
		}
		flags := uint8(0)
		if n == left {
			flags = flagEndStream
			p.whole = c.serial
		}
		c.queue.buf = appendHeader(c.queue.buf, n, frameData, flags, p.id)
		p.window -= int64(n)
		c.window -= int64(n)
		left -= n
		if head {
			c.queue.buf = appendPrefix(c.queue.buf, size)
			n -= prefixSize
			head = false
		}
		for n > 0 {
			k := min(n, len(request[0])-at)
			if b := request[0][at : at+k]; len(b) > 0 {
				if len(b) >= gatherBelow {
					p.pinned, p.last = true, c.serial
				}
				c.queue.content(b)
			}
			n -= k
			if at += k; at == len(request[0]) {
				request, at = request[1:], 0
			}
		}
	}
	c.flush()
}

// room waits until a frame of the request may be queued, and returns how many of left bytes it may contain. It returns
// false if the call has ended. A message's prefix is never split. mu is held.
func (c *Client) room(p *clientCall, left int) (int, bool) {
	for {
		if c.err != nil || p.over || p.cancelled {
			return 0, false
		}
		n := int(min(int64(left), p.window, c.window, int64(c.maxFrame)))
		if n >= min(left, prefixSize) && c.queue.bytes() < streamQuantum {
			return n, true
		}
		switch {
		case c.busy:
			c.written.Wait()
		case !c.queue.empty():
			c.flush() // releases mu: everything may have changed
		default:
			// Only a reader learns of window updates.
			if !c.reading {
				c.askWatcher()
			}
			c.windowWaiters++
			c.written.Wait()
			c.windowWaiters--
		}
	}
}

// widen enlarges a request's window. mu is held.
func (c *Client) widen(id uint32, n int64) error {
	p := c.calls[id]
	if p == nil {
		return nil // its call is over
	}
	if p.window += n; p.window > maxWindow {
		return broken(codeFlowControl, "the window of stream %d is too large", id)
	}
	return nil
}

// resize changes the window of all requests. mu is held.
func (c *Client) resize(by int64) error {
	for id := range c.calls {
		if err := c.widen(id, by); err != nil {
			return err
		}
	}
	return nil
}
