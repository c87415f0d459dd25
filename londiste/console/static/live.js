"use strict";
// Replaces the parts of a page by those of the newest one, which the server sends.
(function () {
  var connection = document.getElementById("connection");
  if (!connection || !window.EventSource) {
    return;
  }
  var shown = {};

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
    // Text that is being copied stays.
    if (shown[name] === html || chosen(part)) {
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

  var source = new EventSource(connection.dataset.source);
  source.addEventListener("page", function (event) {
    var fresh = new DOMParser().parseFromString(event.data, "text/html");
    document.querySelectorAll("[data-part]").forEach(function (part) {
      var other = fresh.querySelector('[data-part="' + part.dataset.part + '"]');
      if (other) {
        replace(part, other);
      }
    });
    say("live", true);
  });
  source.onerror = function () {
    say("not connected", false);
  };
})();
