"use strict";
// Replaces the parts of a page by those of the newest one, which the server sends.
(function () {
  var connection = document.getElementById("connection");
  if (!connection || !window.EventSource) {
    return;
  }
  var shown = {};
  var newest = null;
  var pressed = null;

  function say(text, calm) {
    if (connection.textContent !== text) {
      connection.textContent = text;
      connection.className = calm ? "live" : "lost";
    }
  }

  function chosen(part) {
    var selection = window.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  function places(part) {
    return Array.prototype.map.call(part.querySelectorAll(".scroll"), function (one) {
      return one.scrollLeft;
    });
  }

  function replace(part, fresh) {
    var name = part.dataset.part;
    var html = fresh.innerHTML;
    // Text that is being copied stays, and a link between press and release: the click would be lost.
    if (shown[name] === html || chosen(part) || (pressed && part.contains(pressed))) {
      return;
    }
    shown[name] = html;
    var scrolled = places(part);
    var focused = part.contains(document.activeElement) ? document.activeElement : null;
    var all = "a, button, input, [tabindex]";
    var number = focused ? Array.prototype.indexOf.call(part.querySelectorAll(all), focused) : -1;
    part.innerHTML = html;
    part.querySelectorAll(".scroll").forEach(function (one, position) {
      one.scrollLeft = scrolled[position] || 0;
    });
    if (number >= 0) {
      var next = part.querySelectorAll(all)[number];
      if (next) {
        next.focus({ preventScroll: true });
      }
    }
  }

  function renew() {
    document.querySelectorAll("[data-part]").forEach(function (part) {
      var other = newest && newest.querySelector('[data-part="' + part.dataset.part + '"]');
      if (other) {
        replace(part, other);
      }
    });
  }

  document.addEventListener("pointerdown", function (event) {
    pressed = event.target;
  });
  ["pointerup", "pointercancel"].forEach(function (name) {
    document.addEventListener(name, function () {
      // After the click, which follows the release.
      setTimeout(function () {
        pressed = null;
        renew();
      });
    });
  });

  var source = new EventSource(connection.dataset.source);
  source.addEventListener("page", function (event) {
    newest = new DOMParser().parseFromString(event.data, "text/html");
    renew();
    say("live", true);
  });
  source.onerror = function () {
    say("not connected", false);
  };
})();
